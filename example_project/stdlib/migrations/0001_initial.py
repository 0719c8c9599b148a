from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("task", models.CharField(max_length=100)),
                ("job_id", models.CharField(max_length=100)),
                ("number", models.PositiveIntegerField()),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                        ],
                        default="running",
                        max_length=10,
                    ),
                ),
                ("note", models.TextField(blank=True)),
                ("started_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="SourceFile",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("path", models.CharField(max_length=255, unique=True)),
                ("module", models.CharField(max_length=255)),
                (
                    "runs",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="How often a result was recorded: 0 while it waits, then 1.",
                    ),
                ),
                ("analysed_at", models.DateTimeField(null=True)),
                ("bytes", models.PositiveIntegerField(default=0)),
                ("lines", models.PositiveIntegerField(default=0)),
                ("functions", models.PositiveIntegerField(default=0)),
                ("classes", models.PositiveIntegerField(default=0)),
                ("imports", models.PositiveIntegerField(default=0)),
                (
                    "complexity",
                    models.PositiveIntegerField(
                        default=0, help_text="Cyclomatic complexity, summed over all functions."
                    ),
                ),
                ("most_complex", models.CharField(blank=True, max_length=255)),
                ("most_complex_value", models.PositiveIntegerField(db_index=True, default=0)),
                ("error", models.TextField(blank=True, help_text="Why the file does not parse.")),
            ],
            options={
                "ordering": ["path"],
            },
        ),
    ]
