"""`maar web`: a process that only reads the cluster, decides in shadow, and answers over HTTP under /api/v1.

`mirror` follows the cluster, `access` says who asks and what she may see, `routes` is the table of everything that is
served, `server` speaks HTTP, `main` starts it all. Every answer is a view (`maar.views`) for the one who asks. The
command line imports it; no other module does.
"""
