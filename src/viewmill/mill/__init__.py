"""The mill: tables, views, versions and the directory that outlives the process."""
