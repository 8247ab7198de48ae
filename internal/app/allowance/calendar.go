// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package allowance

import "time"

// Period is the period of a budget, by the calendar of this machine.
type Period string

// The periods of budgets.
const (
	Minute Period = "minute"
	Hour   Period = "hour"
	Day    Period = "day"
	Week   Period = "week" // begins on Monday, as in ISO 8601
	Month  Period = "month"
)

var periods = [...]Period{Minute, Hour, Day, Week, Month}

func (p Period) orDay() Period {
	if p == "" {
		return Day
	}
	return p
}

func (p Period) index() int {
	for i, of := range periods {
		if of == p.orDay() {
			return i
		}
	}
	return 0 // refused by Validate
}

// begins returns the start of the period that contains a time.
func (p Period) begins(t time.Time) time.Time {
	switch y, m, d := t.Date(); p.orDay() {
	case Minute:
		return hourOf(t).Add(time.Duration(t.Minute()) * time.Minute)
	case Hour:
		return hourOf(t)
	case Week:
		return midnight(y, m, d-(int(t.Weekday())+6)%7, t.Location())
	case Month:
		return midnight(y, m, 1, t.Location())
	default:
		return midnight(y, m, d, t.Location())
	}
}

// ends returns the end of the period that contains a time.
func (p Period) ends(t time.Time) time.Time {
	start := p.begins(t)
	switch y, m, d := start.Date(); p.orDay() {
	case Minute:
		return start.Add(time.Minute)
	case Hour:
		return start.Add(time.Hour)
	case Week:
		return midnight(y, m, d+7, t.Location())
	case Month:
		return midnight(y, m+1, 1, t.Location())
	default:
		return midnight(y, m, d+1, t.Location())
	}
}

// ahead is how far in the future the start of a period may lie. A start beyond it comes from a clock
// that was ahead. Smaller corrections of the clock are normal.
func (p Period) ahead() time.Duration {
	switch p.orDay() {
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	default:
		return 24 * time.Hour
	}
}

// hourOf returns the start of an hour on the clock. The hour that a change to winter time repeats is
// two hours: time.Date would take the first one for both.
func hourOf(t time.Time) time.Time {
	return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second -
		time.Duration(t.Nanosecond())).Round(0)
}

// midnight returns the start of a day. Days and months beyond their ranges carry over.
func midnight(y int, m time.Month, d int, in *time.Location) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, in)
	if t.Hour() == 23 { // of the day before: daylight saving time begins at midnight
		t = t.Add(time.Hour)
	}
	return t
}

// DayOf returns the start of the day of a time.
func DayOf(t time.Time) time.Time { return Day.begins(t) }

// Since returns the start of the earliest period that contains a time: the charges since then count.
func Since(t time.Time) time.Time {
	week, month := Week.begins(t), Month.begins(t)
	if week.Before(month) {
		return week
	}
	return month
}
