from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("metrics/", include("django_echomq.contrib.prometheus.urls")),
]
