//! Plans and methods: the search, repeats and stop rules, over a Bench that runs one trial.
