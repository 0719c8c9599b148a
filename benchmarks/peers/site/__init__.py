"""The app of the Django systems' tasks."""
