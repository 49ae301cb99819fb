"""Headings of the printed plan."""

from datetime import timedelta

MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
DAYS = "Mon Tue Wed Thu Fri Sat Sun".split()


def short_date(day):
    """Return a date as the crew writes it, without a leading zero."""
    return f"{day.day} {MONTHS[day.month - 1]}"


def day_heading(day):
    """Return the heading above a day."""
    return f"{DAYS[day.weekday()]} {short_date(day)}"


def week_heading(day):
    """Return the heading above a week."""
    begins = day - timedelta(days=day.weekday())
    return f"Week {day.isocalendar()[1]} ({short_date(begins)})"
