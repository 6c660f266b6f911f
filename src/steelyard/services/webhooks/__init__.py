"""The service that notifies the webhooks of accounts when entities have ended, by CloudEvents over HTTP."""
