// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Wrapped finds a command's output in the JSON envelope of Codex:
// {"chunk_id":…,"wall_time_seconds":…,"exit_code":…,"output":"…"}, in older versions
// {"output":"…","metadata":{…}}. It returns the position of the output's JSON string in the text.
func Wrapped(s string) (start, end int, ok bool) {
	if !strings.HasPrefix(s, `{"chunk_id"`) && !strings.HasPrefix(s, `{"output"`) &&
		!strings.HasPrefix(s, `{"wall_time`) || !rawjson.Valid(s) {
		return 0, 0, false
	}
	v := gjson.Parse(s)
	output := v.Get("output")
	// Other tools' JSON may have a member output, too: an exit code or metadata tells them apart.
	if output.Type != gjson.String || output.Index == 0 || !v.Get("exit_code").Exists() && !v.Get("metadata").IsObject() &&
		!v.Get("wall_time_seconds").Exists() {
		return 0, 0, false
	}
	return output.Index, output.Index + len(output.Raw), true
}

// Unwrap returns the output in such an envelope, any other text unchanged.
func Unwrap(s string) string {
	if start, end, ok := Wrapped(s); ok {
		return gjson.Parse(s[start:end]).Str
	}
	return s
}

// MaybeWrapped reports whether a JSON string may contain such an envelope.
func MaybeWrapped(body []byte) bool { return bytes.HasPrefix(body, []byte(`"{\"`)) }

// Essence removes the parts of a tool's output that clients add or that vary: trailing reminders
// (Claude Code), the header with the time of a command (Codex), the process group (Gemini CLI).
func Essence(s string) string {
	for {
		t := strings.TrimRight(s, " \r\n")
		if !strings.HasSuffix(t, "</system-reminder>") {
			break
		}
		i := strings.LastIndex(t, "<system-reminder>")
		if i < 0 {
			break
		}
		s = t[:i]
	}
	s = Unheaded(s)
	if i := lastIndex(s, "Process Group PGID: "); i >= 0 && Digits(strings.TrimSpace(s[i+len("Process Group PGID: "):])) {
		s = s[:i]
	}
	return strings.TrimRight(s, " \r\n")
}

// Unheaded removes the header that Codex puts before a command's output.
func Unheaded(s string) string {
	const output = "\nOutput:\n"
	if strings.HasPrefix(s, "Chunk ID: ") || strings.HasPrefix(s, "Wall time: ") || strings.HasPrefix(s, "Script ") {
		if i := strings.Index(s[:min(len(s), 400)], output); i >= 0 {
			return strings.TrimLeft(s[i+len(output):], "\n")
		}
	}
	return s
}

// lastIndex is strings.LastIndex for a text that can only be near the end.
func lastIndex(s, what string) int {
	from := max(0, len(s)-100)
	if i := strings.LastIndex(s[from:], what); i >= 0 {
		return from + i
	}
	return -1
}

// Digits reports whether a text consists of one or more digits.
func Digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
