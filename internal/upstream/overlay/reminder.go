// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"regexp"
	"strings"
)

const (
	reminderOpen  = "<system-reminder>"
	reminderClose = "</system-reminder>"
)

func reminder(text string) string {
	if strings.HasPrefix(text, reminderOpen) {
		return text
	}
	// The tags mark a text as not the user's.
	return reminderOpen + "\n" + text + "\n" + reminderClose
}

// counter matches a text that only reports how many tokens are left.
var counter = regexp.MustCompile(`^\s*(?:<system-reminder>)?\s*<total_tokens>[0-9]+ tokens ` +
	`left</total_tokens>\s*(?:</system-reminder>)?\s*$`)

// withoutCounters removes counters from the reminders at the end of a text.
func withoutCounters(text string) string {
	head, kept := text, ""
	found := false
	for {
		trimmed := strings.TrimRight(head, "\n")
		if !strings.HasSuffix(trimmed, reminderClose) {
			break
		}
		at := strings.LastIndex(trimmed, reminderOpen)
		if at < 0 {
			break
		}
		before := strings.TrimRight(trimmed[:at], "\n")
		if counter.MatchString(trimmed[at:]) {
			found = true
		} else {
			kept = head[len(before):] + kept
		}
		head = before
	}
	if !found {
		return text
	}
	return head + kept
}
