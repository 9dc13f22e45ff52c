"""Sessions: processes that stay alive from call to call, for notebooks and prompts."""
