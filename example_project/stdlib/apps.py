from django.apps import AppConfig


class StdlibConfig(AppConfig):
    name = "stdlib"
    verbose_name = "Standard library"
