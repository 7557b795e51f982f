"""A comparison for people: table, pictures, page. All of it is made from the JSON of the control endpoint."""
