"""The operator's side of approvals: `tenex approvals`, its requests of the control socket, and proposals of rules."""
