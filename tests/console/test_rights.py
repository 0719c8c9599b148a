"""Who may see and do what: every address and every verb, for every kind of user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
import redis
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import connection
from django.test import Client as Browser
from django.urls import reverse

from django_echomq.console.jobs import VERBS as JOB_VERBS
from django_echomq.console.queues import VERBS as QUEUE_VERBS
from django_echomq.models import Queue as QueueModel
from tests.console.conftest import World, ended, url
from tests.queue.keyspace import snapshot

pytestmark = pytest.mark.django_db

VIEW, OPERATE, EDIT, DESTROY = "view_queue", "operate_queue", "edit_job", "destroy_queue"

#: What each address takes, beside the right to look. A new one has to be written down here.
PAGES = {
    "changelist",
    "status",
    "schedules",
    "workers",
    "activity",
    "queue",
    "operation",
    "jobs",
    "failures",
    "lanes",
    "job",
}
ACTS = {
    "act_on_selected": VIEW,  # each verb asks for its own
    "act": VIEW,
    "act_on_jobs": VIEW,
    "act_on_lane": OPERATE,
    "act_on_schedule": OPERATE,
    "act_on_job": VIEW,
    "edit_job": EDIT,
    "act_on_worker": OPERATE,
}


def addresses() -> Iterator[tuple[str, set[str]]]:
    """Every address of the console with the names of its parts."""
    for pattern in admin.site._registry[QueueModel].get_urls():
        assert pattern.name
        yield pattern.name.removeprefix("django_echomq_queue_"), set(pattern.pattern.converters)


def address(name: str, world: World) -> str:
    parts = {"name": world.name, "job_id": world.pending, "operation_id": "0123456789abcdef"}
    return url(name, **{part: parts[part] for part in dict(addresses())[name]})


def get(browser: Browser, name: str, world: World) -> int:
    return browser.get(address(name, world)).status_code


def test_every_address_is_expected() -> None:
    assert {name for name, _ in addresses()} == PAGES | set(ACTS)


ALONE = [(), (VIEW,), (OPERATE,), (EDIT,), (DESTROY,), (OPERATE, EDIT, DESTROY)]


@pytest.mark.parametrize("name", sorted(PAGES))
def test_pages(name: str, world: World, browse: Callable[..., Browser], raw: redis.Redis) -> None:
    before = snapshot(world.queue, raw)
    stranger = Browser().get(address(name, world))
    assert stranger.status_code == 302
    assert stranger.url.startswith(reverse("admin:login"))
    for permissions in ALONE:
        expected = 200 if permissions == (VIEW,) else 403
        assert get(browse(*permissions), name, world) == expected, permissions
    root = browse(superuser=True)
    assert get(root, name, world) == 200
    assert root.post(address(name, world)).status_code == 405
    assert snapshot(world.queue, raw) == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("name", sorted(ACTS))
def test_acts(name: str, world: World, browse: Callable[..., Browser], raw: redis.Redis) -> None:
    """Nobody gets to an act without the rights; none is done by a link, or from another site."""
    before, target = snapshot(world.queue, raw), address(name, world)
    stranger = Browser().post(target)
    assert stranger.status_code == 302
    assert stranger.url.startswith(reverse("admin:login"))
    for permissions in ALONE:
        allowed = permissions == (VIEW,) and ACTS[name] == VIEW
        assert (browse(*permissions).post(target).status_code == 403) is not allowed, permissions
    assert browse(superuser=True).get(target).status_code == 405
    guarded = browse(VIEW, OPERATE, EDIT, DESTROY, enforce_csrf_checks=True)
    assert guarded.post(target, {"action": "pause", "confirmed": "yes"}).status_code == 403
    assert snapshot(world.queue, raw) == before
    assert not LogEntry.objects.exists()


class Deed(NamedTuple):
    """A verb: where it is posted, with what, what it takes, and what the log says of it."""

    act: str
    form: dict[str, Any]
    permission: str
    said: str
    count: str = ""


def deeds(world: World) -> dict[str, Deed]:
    yes = {"confirmed": "yes"}
    found = {}
    count = {
        "promote_due": "0 jobs",
        "promote_all": "1 jobs",
        "reprocess_dead": "1 jobs",
        "drain": "2 jobs",
        "clean_dead": "1 jobs",
        "obliterate": "5 jobs",
    }
    for word, verb in QUEUE_VERBS.items():
        permission = verb.permission.rpartition(".")[2]
        form = {"action": word, **yes, "typed": world.name}
        found[f"queue {word}"] = Deed("act", form, permission, word, count.get(word, ""))
        chosen = {**form, "_selected_action": [world.name]}
        found[f"queues {word}"] = Deed(
            "act_on_selected", chosen, permission, word, count.get(word, "")
        )
    subject = {"retry": "dead", "promote": "scheduled", "cancel": "pending", "remove": "dead"}
    for word, verb in JOB_VERBS.items():
        state = subject[word]
        form = {"action": word, "state": state, **yes}
        one = verb.permission.rpartition(".")[2]
        every = verb.permission_for_all.rpartition(".")[2]
        chosen = {**form, "_selected_action": [getattr(world, state)]}
        across = {**form, "select_across": "1"}
        found[f"jobs {word}"] = Deed("act_on_jobs", chosen, one, word, "1 jobs")
        found[f"all jobs {word}"] = Deed("act_on_jobs", across, every, word, "1 jobs")
    for word, permission, job, form in (
        ("retry", OPERATE, world.dead, {}),
        ("promote", OPERATE, world.scheduled, {}),
        ("cancel", OPERATE, world.pending, {}),
        ("reschedule", EDIT, world.pending, {"when": "2031-05-06T07:08"}),
        ("move", EDIT, world.pending, {"lane": "acme"}),
        ("remove", EDIT, world.pending, yes),
    ):
        found[f"job {word}"] = Deed("act_on_job", {"action": word, **form}, permission, word, job)
    found["edit"] = Deed("edit_job", {"args": "[1]", "kwargs": "{}"}, EDIT, "edit", world.pending)
    for word, permission, form in (
        ("pause", OPERATE, {}),
        ("resume", OPERATE, {}),
        ("limit", OPERATE, {"number": "3"}),
        ("weight", OPERATE, {"number": "2"}),
        ("drain", DESTROY, yes),
    ):
        form = {"action": word, "lane": world.lane, **form}
        said = "1 jobs" if word == "drain" else world.lane
        found[f"lane {word}"] = Deed("act_on_lane", form, permission, word, said)
    for word, permission in (
        ("pause", OPERATE),
        ("resume", OPERATE),
        ("run", OPERATE),
        ("cancel", DESTROY),
    ):
        form = {"action": word, "schedule": world.schedule, **yes}
        found[f"schedule {word}"] = Deed(
            "act_on_schedule", form, permission, "schedule nightly", word
        )
    for word in ("quiet", "resume", "stop"):
        form = {"action": word, "worker": world.worker}
        found[f"worker {word}"] = Deed("act_on_worker", form, OPERATE, "worker w1", word)
    return found


class Nowhere(World):
    """Stands in for a world while tests are collected."""

    def __init__(self) -> None:
        pass

    def __getattr__(self, name: str) -> str:
        return ""

    name = ""  # type: ignore[assignment]


def post(browser: Browser, deed: Deed, world: World) -> Any:
    target = address(deed.act, world)
    job = deed.count if deed.act in ("act_on_job", "edit_job") else ""
    return browser.post(target.replace(world.pending, job) if job else target, deed.form)


@pytest.mark.parametrize("name", sorted(deeds(Nowhere())))
def test_a_verb_takes_its_permission_and_is_logged(
    name: str, world: World, browse: Callable[..., Browser], raw: redis.Redis
) -> None:
    deed = deeds(world)[name]
    if "obliterate" in name:
        world.queue.admin.pause()
        world.queue.jobs.remove_many([world.pending])
        raw.zrem(world.queue.keys.base + b"active", world.active)
        deed = deed._replace(count="3 jobs")
    before = snapshot(world.queue, raw)
    others = {OPERATE, EDIT, DESTROY} - {deed.permission}
    for permissions in ((VIEW, *sorted(others)), (deed.permission,)):
        assert post(browse(*permissions), deed, world).status_code == 403, permissions
        assert snapshot(world.queue, raw) == before
    assert not LogEntry.objects.exists()

    browser = browse(VIEW, deed.permission)
    answer = post(browser, deed, world)
    assert answer.status_code == 302
    if "/operation/" in answer.url:
        assert ended(world.queue, answer.url).state == "done"
    entry = LogEntry.objects.get()
    assert entry.user.get_username() == f"view_queue-{deed.permission}-False"
    assert entry.object_id == world.name
    assert deed.said in entry.change_message
    assert deed.count in entry.change_message
    if "resume" not in name and name not in ("queue promote_due", "queues promote_due"):
        assert snapshot(world.queue, raw) != before


@pytest.mark.parametrize(
    "name",
    [
        *(f"queue {word}" for word, verb in QUEUE_VERBS.items() if verb.asks),
        "jobs remove",
        "jobs cancel",
        *(f"all jobs {word}" for word in JOB_VERBS),
        "job remove",
        "lane drain",
        "schedule cancel",
    ],
)
def test_what_destroys_asks_first(name: str, world: World, root: Browser, raw: redis.Redis) -> None:
    """The page names how many jobs go, and sends the same form on."""
    deed, before = deeds(world)[name], snapshot(world.queue, raw)
    form = {key: value for key, value in deed.form.items() if key not in ("confirmed", "typed")}
    page = post(root, deed._replace(form=form), world)
    assert page.status_code == 200
    text = page.content.decode()
    assert 'name="confirmed" value="yes"' in text
    assert f'name="action" value="{deed.form["action"]}"' in text
    if "jobs" in deed.count:
        assert deed.count.split()[0] in text
    assert snapshot(world.queue, raw) == before
    assert not LogEntry.objects.exists()


def test_obliterate_asks_for_the_name(world: World, root: Browser, raw: redis.Redis) -> None:
    world.queue.admin.pause()
    before = snapshot(world.queue, raw)
    for typed in ("", "Default", "defaul", "default "):
        form = {"action": "obliterate", "confirmed": "yes", "typed": typed}
        assert root.post(url("act", name=world.name), form).status_code == 302
        assert snapshot(world.queue, raw) == before
    world.queue.admin.resume()
    form = {"action": "obliterate", "confirmed": "yes", "typed": world.name}
    answer = root.post(url("act", name=world.name), form, follow=True)
    assert "Pause queue default first." in answer.content.decode()
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/x",
        "javascript:alert(1)",
        "http:///evil",
        "\\\\evil",
    ],
)
def test_next_stays_on_this_site(target: str, world: World, root: Browser) -> None:
    form = {"action": "pause", "next": target}
    assert root.post(url("act", name=world.name), form).url == url("queue", name=world.name)
    page = root.post(url("act", name=world.name), {"action": "drain", "next": target})
    assert target not in page.content.decode().replace("&#x27;", "'")


def test_next_is_followed_on_this_site(world: World, root: Browser) -> None:
    form = {"action": "pause", "next": "/admin/django_echomq/queue/?q=def"}
    assert root.post(url("act", name=world.name), form).url == form["next"]


def test_no_buttons_without_rights(world: World, browse: Callable[..., Browser]) -> None:
    looker, root = browse(VIEW), browse(superuser=True)
    shown = set()
    for name in sorted(PAGES - {"status"}):
        assert 'name="action"' not in looker.get(address(name, world)).content.decode(), name
        if 'name="action"' in root.get(address(name, world)).content.decode():
            shown.add(name)
    assert shown == {"changelist", "queue", "jobs", "job", "lanes", "schedules", "workers"}


def test_permissions_are_given_in_the_admin(root: Browser) -> None:
    known = set(
        Permission.objects.filter(content_type__app_label="django_echomq").values_list(
            "codename", flat=True
        )
    )
    assert known == {VIEW, OPERATE, EDIT, DESTROY}
    page = root.get(reverse("admin:auth_group_add")).content.decode()
    for permission in Permission.objects.filter(codename__in=known):
        assert permission.name in page


def test_no_table_and_no_migration() -> None:
    with suppress(SystemExit):
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)
        assert "django_echomq_queue" not in connection.introspection.table_names()
        return
    pytest.fail("makemigrations would make something")


def test_the_admin_links_only_for_those_who_may_look(browse: Callable[..., Browser]) -> None:
    link = f'href="{url("changelist")}"'
    assert link in browse(VIEW).get(reverse("admin:index")).content.decode()
    assert link not in browse(OPERATE).get(reverse("admin:index")).content.decode()
    assert link in browse(superuser=True).get("/admin/django_echomq/").content.decode()
