//! One test binary; each module is a room's door-plate.
mod profiles;
