//! The one loop that performs what a run owes, generic over journal, models, tools and judge.
