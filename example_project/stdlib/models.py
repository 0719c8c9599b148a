from django.db import models
from django.db.models import Count, Q, Sum


class SourceFileQuerySet(models.QuerySet):
    def analysed(self):
        return self.filter(runs__gt=0)

    def unparsable(self):
        return self.exclude(error="")


class SourceFile(models.Model):
    """A file of the standard library, and what its analysis found."""

    path = models.CharField(max_length=255, unique=True)
    module = models.CharField(max_length=255)
    runs = models.PositiveIntegerField(
        default=0, help_text="How often a result was recorded: 0 while it waits, then 1."
    )
    analysed_at = models.DateTimeField(null=True)
    bytes = models.PositiveIntegerField(default=0)
    lines = models.PositiveIntegerField(default=0)
    functions = models.PositiveIntegerField(default=0)
    classes = models.PositiveIntegerField(default=0)
    imports = models.PositiveIntegerField(default=0)
    complexity = models.PositiveIntegerField(
        default=0, help_text="Cyclomatic complexity, summed over all functions."
    )
    most_complex = models.CharField(max_length=255, blank=True)
    most_complex_value = models.PositiveIntegerField(default=0, db_index=True)
    error = models.TextField(blank=True, help_text="Why the file does not parse.")

    objects = SourceFileQuerySet.as_manager()

    class Meta:
        ordering = ["path"]

    def __str__(self):
        return self.path


#: For ``SourceFile.objects.aggregate(**TOTALS)``; the coroutine task asks for the same.
TOTALS = {
    "files": Count("pk"),
    "analysed": Count("pk", filter=Q(runs__gt=0)),
    "unparsable": Count("pk", filter=~Q(error="")),
    "bytes": Sum("bytes", default=0),
    "lines": Sum("lines", default=0),
    "functions": Sum("functions", default=0),
    "classes": Sum("classes", default=0),
    "imports": Sum("imports", default=0),
    "complexity": Sum("complexity", default=0),
}


class Attempt(models.Model):
    """One attempt of one of the tasks that show how a job can go."""

    class Outcome(models.TextChoices):
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"

    task = models.CharField(max_length=100)
    job_id = models.CharField(max_length=100)
    number = models.PositiveIntegerField()
    outcome = models.CharField(max_length=10, choices=Outcome, default=Outcome.RUNNING)
    note = models.TextField(blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self):
        return f"{self.task}, attempt {self.number}"
