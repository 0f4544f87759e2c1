"""Scripts for the build stage of deploy/Dockerfile. They use only the standard library."""
