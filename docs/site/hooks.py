"""What MkDocs asks of the site while it makes the pages."""


def on_config(config):
    """The offline plugin has pages fetch a script; worker.js does the same and is part of the site."""
    scripts = config.extra.get("polyfills", [])
    config.extra["polyfills"] = ["worker.js" if "iframe-worker" in str(script) else script for script in scripts]
    return config
