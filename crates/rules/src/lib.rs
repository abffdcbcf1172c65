//! What may run: the bundle, permission rules, review settings, floors and the verdict on a call. Pure.
