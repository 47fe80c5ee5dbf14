"""How hidden parameters leave a tool's schema, and how trusted values come back in.

They leave: `marker` and `server_populated` say which; `core_schema` walks the schema, `rewrite` replaces
their fields, and `json_schema` describes the rest to the model. They come back: `arguments` checks what the
model sent and adds the trusted values; `trusted_values` puts them in while pydantic validates.
"""
