"""A comparison as people see it: table, pictures, page. All of it is made of the JSON of the control endpoint."""
