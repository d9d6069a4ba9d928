"""The console: a page in the browser that shows what a mill keeps and how fresh it is.

takes  a mill of this process, or the directory of a mill that another process writes
gives  an HTTP server on loopback; `console.py` starts it, `guard.py` says who may ask, `app.py`
       answers, `static/` is the page
"""
