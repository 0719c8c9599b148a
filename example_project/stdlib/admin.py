from django.contrib import admin

from .models import Attempt, SourceFile


class ReadOnlyAdmin(admin.ModelAdmin):
    """The rows are the tasks' to write."""

    def has_add_permission(self, request):
        return False

    def has_change_permission(self, request, obj=None):
        return False


@admin.register(SourceFile)
class SourceFileAdmin(ReadOnlyAdmin):
    list_display = ["path", "runs", "lines", "functions", "most_complex_value", "error"]
    list_filter = ["runs", ("error", admin.EmptyFieldListFilter)]
    search_fields = ["path", "module", "most_complex"]


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ["task", "number", "outcome", "note", "job_id", "started_at", "ended_at"]
    list_filter = ["task", "outcome"]
