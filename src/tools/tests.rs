//! Laws over the table of tools, and the bodies on real folders.
