"""Code that tests share: real clusters, proxies, witnesses, PostgreSQL, live clusters and hypothesis strategies."""
