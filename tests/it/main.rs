mod harness;
mod twin;
