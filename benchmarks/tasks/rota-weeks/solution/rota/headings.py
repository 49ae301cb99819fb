"""Headings of the printed plan."""

from datetime import date, timedelta

MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
DAYS = "Mon Tue Wed Thu Fri Sat Sun".split()


def short_date(day):
    """Return a date as the crew writes it, without a leading zero."""
    return f"{day.day} {MONTHS[day.month - 1]}"


def day_heading(day):
    """Return the heading above a day."""
    return f"{DAYS[day.weekday()]} {short_date(day)}"


def monday(day):
    """Return the Monday of a day's week."""
    return day - timedelta(days=day.weekday())


def week_heading(day):
    """Return the heading above a week; week 1 is the one with 1 September in it, and the season runs on from there."""
    begins = monday(day)
    first = max(start for year in (begins.year - 1, begins.year) if (start := monday(date(year, 9, 1))) <= begins)
    return f"Week {(begins - first).days // 7 + 1} ({short_date(begins)})"
