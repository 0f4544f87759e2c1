"""How long jobs run: what is learned from finished jobs, and what that says about a job.

The only estimator of run times. Forecasts draw from it, and elections use its estimates (`maar.model.jobs.Estimate`).
Pure; imports the model only.
"""
