mod policies;
