"""Projects of Spark Declarative Pipelines, run as pipelines of ours."""
