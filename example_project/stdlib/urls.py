from django.urls import path

from . import views

app_name = "stdlib"
urlpatterns = [
    path("", views.overview, name="overview"),
    path("live/", views.live, name="live"),
]
