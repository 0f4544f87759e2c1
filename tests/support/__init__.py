"""What tests share: real clusters, proxies, witnesses, PostgreSQL, live scenes and strategies."""
