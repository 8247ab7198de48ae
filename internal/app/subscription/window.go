// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package subscription reads the usage windows of subscriptions, such as Claude Max and ChatGPT Plus, and
// estimates the points of a window that edits have saved.
package subscription

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Window is the state of one usage window at a response.
type Window struct {
	// Name is the provider and the window's name or length: `claude 5h`, `codex 7d`. At most 32 bytes.
	Name string `json:"name"`
	// Used is the used share, above 1 if the window was exceeded.
	Used float64 `json:"used"`
	// Resets is the time at which the window begins anew, zero if unknown.
	Resets time.Time `json:"resets,omitzero"`
	// Status is the provider's word, such as allowed or rejected. At most 32 bytes, empty if there is none.
	Status string `json:"status,omitempty"`
}

// Windows are the windows of one response. Databases store them as JSON, or as NULL if there are none.
type Windows []Window

const (
	// maxWindows bounds the windows of one response.
	maxWindows = 8
	// maxWord bounds names and statuses, which upstreams choose, in bytes.
	maxWord = 32
	// maxUsed bounds a used share.
	maxUsed = 10
	// maxAhead bounds the time to a reset.
	maxAhead = 400 * 24 * time.Hour
)

const (
	claudePrefix = "Anthropic-Ratelimit-Unified-"
	claudeSuffix = "-Utilization"
	codexPrefix  = "X-"
	codexSuffix  = "-Used-Percent"
)

// Read returns the windows in the header of a response, in the order of their names: those of
// `anthropic-ratelimit-unified-<window>-utilization` and of `x-<limit>-primary-used-percent`. Values that
// cannot be read are left out. Headers without windows cost no allocation.
func Read(h http.Header, now time.Time) (all Windows) {
	for name, values := range h {
		if len(values) == 0 {
			continue
		}
		if window, is := between(name, claudePrefix, claudeSuffix); is {
			if used, err := strconv.ParseFloat(values[0], 64); err == nil {
				of := claudePrefix + window
				all = all.with("claude "+window, used, resetAt(h.Get(of+"-Reset"), now), h.Get(of+"-Status"))
			}
		} else if slot, is := between(name, codexPrefix, codexSuffix); is {
			used, err := strconv.ParseFloat(values[0], 64)
			limit, isSlot := strings.CutSuffix(slot, "-Primary")
			if !isSlot {
				limit, isSlot = strings.CutSuffix(slot, "-Secondary")
			}
			if err != nil || !isSlot {
				continue
			}
			of := codexPrefix + slot
			minutes, _ := strconv.ParseInt(h.Get(of+"-Window-Minutes"), 10, 64)
			resets := resetAt(h.Get(of+"-Reset-At"), now)
			if resets.IsZero() {
				resets = resetAfter(h.Get(of+"-Reset-After-Seconds"), now)
			}
			all = all.withSlot(limit, slot[len(limit)+1:], used, minutes, resets)
		}
	}
	return all.sorted()
}

// ReadEvent returns the windows in an event `codex.rate_limits` of a stream, as [Read] does.
func ReadEvent(event string, now time.Time) (all Windows) {
	root := gjson.Parse(event)
	limit := cmp.Or(root.Get("metered_limit_name").Str, root.Get("limit_name").Str, "codex")
	for _, slot := range [...]string{"primary", "secondary"} {
		w := root.Get("rate_limits." + slot)
		if used := w.Get("used_percent"); used.Type == gjson.Number {
			all = all.withSlot(limit, slot, used.Num, w.Get("window_minutes").Int(), resetAt(w.Get("reset_at").Raw, now))
		}
	}
	return all.sorted()
}

// between returns the part of a header's name between a prefix and a suffix.
func between(name, prefix, suffix string) (part string, ok bool) {
	if part, ok = strings.CutSuffix(name, suffix); ok {
		part, ok = strings.CutPrefix(part, prefix)
	}
	return part, ok && part != ""
}

// withSlot appends a window of a Codex limit. Its name is its length, or else that of its slot: which of
// primary and secondary is which window differs from plan to plan.
func (s Windows) withSlot(limit, slot string, percent float64, minutes int64, resets time.Time) Windows {
	if percent == 0 && minutes == 0 && resets.IsZero() {
		return s // Codex, too, takes this for no window
	}
	length := slot
	switch {
	case minutes <= 0:
	case minutes%(24*60) == 0:
		length = strconv.FormatInt(minutes/(24*60), 10) + "d"
	case minutes%60 == 0:
		length = strconv.FormatInt(minutes/60, 10) + "h"
	default:
		length = strconv.FormatInt(minutes, 10) + "m"
	}
	return s.with(limit+" "+length, percent/100, resets, "")
}

func (s Windows) with(name string, used float64, resets time.Time, status string) Windows {
	if used < 0 || math.IsNaN(used) || len(s) == maxWindows {
		return s
	}
	return append(s, Window{Name: word(name), Used: min(used, maxUsed), Resets: resets, Status: word(status)})
}

// sorted returns the windows in the order of their names, of equal names the fullest only.
func (s Windows) sorted() Windows {
	slices.SortFunc(s, func(a, b Window) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Used, a.Used)) })
	return slices.CompactFunc(s, func(a, b Window) bool { return a.Name == b.Name })
}

// word bounds a word of an upstream: at most maxWord bytes of lower-case letters, digits, `-`, `_`, `.` and
// spaces. Other bytes become `_`.
func word(s string) string {
	s = strings.ToLower(s[:min(len(s), maxWord)])
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '.', r == ' ':
			return r
		}
		return '_'
	}, s)
}

// resetAt reads Unix seconds or a time of RFC 3339. It returns zero for anything else, and for times that
// no window can have.
func resetAt(s string, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		seconds, err := strconv.ParseFloat(s, 64)
		if err != nil || !(seconds > 0 && seconds < math.MaxInt32*2) {
			return time.Time{}
		}
		at = time.Unix(int64(seconds), 0)
	}
	if d := at.Sub(now); d < -maxAhead || d > maxAhead {
		return time.Time{}
	}
	return at.UTC()
}

func resetAfter(s string, now time.Time) time.Time {
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || !(seconds >= 0 && seconds < maxAhead.Seconds()) {
		return time.Time{}
	}
	return now.Add(time.Duration(seconds * float64(time.Second))).Truncate(time.Second).UTC()
}

// Text returns the windows as JSON, nil for none.
func (s Windows) Text() any {
	if len(s) == 0 {
		return nil
	}
	b, _ := json.Marshal(s) // strings, times and finite numbers: it never fails
	return string(b)
}

// Scan implements sql.Scanner.
func (s *Windows) Scan(v any) error {
	*s = nil
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), s)
	case []byte:
		return json.Unmarshal(v, s)
	}
	return fmt.Errorf("subscription: %T is no list of windows", v)
}
