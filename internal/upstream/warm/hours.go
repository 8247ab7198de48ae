// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// hours are working hours on some days of the week. If to is not after from, they extend into the
// next day.
type hours struct {
	days     [7]bool // by time.Weekday
	from, to time.Duration
}

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseHours parses hours such as "mon-fri 08:00-18:30".
func parseHours(s string) (*hours, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // no hours are no error
	}
	h := new(hours)
	days, clock, named := strings.Cut(s, " ")
	if !named {
		days, clock = "sun-sat", s
	}
	for part := range strings.SplitSeq(strings.ToLower(days), ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		i, j := slices.Index(dayNames, from), slices.Index(dayNames, to)
		if i < 0 || j < 0 {
			return nil, fmt.Errorf("%q are no days such as mon-fri or sat,sun", days)
		}
		// Ranges may cross the end of the week, as in sat-mon.
		for ; ; i = (i + 1) % 7 {
			if h.days[i] = true; i == j {
				break
			}
		}
	}
	from, to, ok := strings.Cut(clock, "-")
	for _, t := range []struct {
		text string
		into *time.Duration
	}{{from, &h.from}, {to, &h.to}} {
		at, err := time.Parse("15:04", t.text)
		if err != nil || !ok {
			return nil, fmt.Errorf("%q are no hours such as 08:00-18:30", clock)
		}
		*t.into = time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	}
	return h, nil
}

func (h *hours) at(t time.Time) bool {
	if h == nil {
		return false
	}
	clock := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	today, yesterday := h.days[t.Weekday()], h.days[(t.Weekday()+6)%7]
	if h.from < h.to {
		return today && clock >= h.from && clock < h.to
	}
	// Hours past midnight belong to the day before.
	return today && clock >= h.from || yesterday && clock < h.to
}
