// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"regexp"
	"strings"
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// A client describes its surroundings in places with known wording: one line, a run of lines in a
// tag, or a section that ends at the next heading or tag. Other lines are places, too, if they
// contain a date, a time, a path, a UUID or a hash, recognized by its shape. A survey splits a text
// into these places and the rest.

// tags enclose descriptions of the surroundings.
var tags = []string{
	"env", "environment", "environment_context", "environment_details", "git_status", "gitStatus",
	"files", "directories", "directory_structure", "directoryStructure", "project_layout",
}

// sections extend to the next heading, tag or section.
var sections = []string{"gitStatus:", "# gitStatus", "# currentDate", "# Environment", "Instructions from: "}

var lines = regexp.MustCompile(`^[\s*#-]*((?i:today'?s date|the current date|current date|today is|date:)|Working ` +
	`directory:|Primary working directory:|Current branch:|Additional working directories:|You are powered by the ` +
	`model|The exact model ID is)`)

const maxSurveyed = 1 << 20

// surroundings are the result of surveying a text, computed on first use.
type surroundings struct {
	once sync.Once
	// rest is the hash of the text without its places: texts with an equal rest differ in their
	// surroundings only. In a user message only places in reminders count; an unclosed tag or
	// section is the user's own text.
	rest wire.Hash
	// shape is the hash of the rest without values, also in the user's own lines.
	shape  wire.Hash
	places []string
}

func (p *pin) survey() *surroundings {
	p.once.Do(func() {
		if len(p.raw) > maxSurveyed {
			p.rest, p.shape = p.hash, p.hash
			return
		}
		rest, shape, places := survey(textOf(p.raw), p.message)
		p.rest, p.shape, p.places = hashOf([]byte(rest)), hashOf([]byte(shape)), places
	})
	return p.surroundings
}

func survey(text string, message bool) (rest, shape string, places []string) {
	var b, shapes strings.Builder
	all := strings.SplitAfter(text, "\n")
	reminder := !message
	var open dangling
	for i := 0; i < len(all); {
		line := all[i]
		if message {
			switch t := strings.TrimSpace(line); {
			case strings.HasPrefix(t, reminderOpen):
				reminder = !strings.Contains(t, reminderClose)
			case strings.HasPrefix(t, reminderClose):
				reminder = false
			}
		}
		n := open.tagged(all, i)
		if n == 0 && reminder {
			n = open.section(all, i, message)
		}
		if n == 0 && reminder && lines.MatchString(line) {
			n = 1
		}
		if n == 0 {
			shape := shapeOf(line)
			shapes.WriteString(shape)
			if shape != line {
				places = append(places, strings.Clone(line)) // the line would keep the whole text in memory
			}
			if !reminder {
				shape = line
			}
			b.WriteString(shape)
			i++
			continue
		}
		b.WriteString("\x00\n")
		shapes.WriteString("\x00\n")
		places = append(places, strings.Clone(strings.Join(all[i:i+n], "")))
		i += n
	}
	return b.String(), shapes.String(), places
}

// values matches dates, times, paths, UUIDs and hashes, which change between requests in any
// wording. Plain numbers do not match: another number may be another rule. Only possible beginnings
// are tried, because most of a text contains no values.
var values = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})\b)?)?`,
	`\d{1,2}[/.]\d{1,2}[/.]\d{4}\b`,
	`(?:` + months + `)\.? \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?\b`,
	`\d{1,2}\.? (?:` + months + `)\.?(?:,? \d{4})?\b`,
	`(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b`,
	`(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? `,
	`\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\b\.?)?`,
	`1[5-9]\d{8}(?:\d{3}|\.\d+)?\b`, // seconds since 1970, or milliseconds, from 2017 to 2033
	`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`,
	`[0-9a-f]{7,64}\b`,
	`(?:~|[A-Za-z]:|\.{1,2})?(?:[/\\][\w.@+-]+)+[/\\]?`,
}, "|") + `)`)

const months = `Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?`

func shapeOf(line string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(line); {
		n := 0
		if mayBegin(line, i) {
			n = len(values.FindString(line[i:]))
		}
		if n > 0 && isValue(line[i:i+n]) {
			b.WriteString(line[done:i])
			b.WriteByte(0)
			i += n
			done = i
			continue
		}
		for i++; i < len(line) && isWord(line[i-1]) && isWord(line[i]); i++ {
		}
	}
	if done == 0 {
		return line
	}
	b.WriteString(line[done:])
	return b.String()
}

func mayBegin(line string, at int) bool {
	rest := line[at:]
	switch c := rest[0]; {
	case c == '/' || c == '\\' || c == '~' || c == '.':
		// A path cannot continue a word, as in "and/or" and in URLs.
		return at == 0 || strings.IndexByte(" \t'\"`([{<>=:,", line[at-1]) >= 0
	case c >= '0' && c <= '9':
		return true
	case !isWord(c) || len(rest) < 3:
		return false
	case rest[1] == ':':
		return rest[2] == '/' || rest[2] == '\\'
	case c >= 'A' && c <= 'Z' && rest[1] >= 'a': // a month, a day
		return strings.IndexByte("JFMASONDTW", c) >= 0 || isHash(rest)
	}
	return isHash(rest)
}

func isHash(text string) bool {
	for i := range min(7, len(text)) {
		if c := text[i] | 0x20; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	// Git's short hashes have seven digits.
	return len(text) >= 7
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

func isValue(text string) bool {
	switch c := text[0]; {
	case c == '/' || c == '\\' || c == '~' || c == '.':
		return len(strings.Trim(text, `/\.~`)) > 0
	case strings.ContainsAny(text, ":-/. ") || c >= 'A' && c <= 'Z':
		return true
	}
	// A hash has digits and letters: words such as "defaced" and plain numbers are no hashes. Ten or thirteen digits may
	// be a time.
	digits := strings.ContainsAny(text, "0123456789")
	if !strings.ContainsAny(text, "abcdef") {
		return digits && (len(text) == 10 || len(text) == 13) && text[0] == '1' && text[1] >= '5'
	}
	return digits
}

// dangling remembers unclosed tags and reminders.
type dangling struct {
	tags      [16]bool // by index in tags: no end in the rest of the text
	reminders int      // no reminder ends before this line
}

func (d *dangling) tagged(all []string, from int) int {
	first := strings.TrimSpace(all[from])
	if !strings.HasPrefix(first, "<") {
		return 0
	}
	for t, tag := range tags {
		if d.tags[t] || !strings.HasPrefix(first, "<"+tag+">") {
			continue
		}
		if strings.HasSuffix(first, "</"+tag+">") {
			return 1
		}
		for i, line := range all[from:] {
			if strings.HasPrefix(strings.TrimSpace(line), "</"+tag+">") {
				return i + 1
			}
		}
		// A long text is searched once for an end, not at each line.
		d.tags[t] = true
	}
	return 0
}

func (d *dangling) section(all []string, from int, closed bool) int {
	if !begins(all[from]) {
		return 0
	}
	heading := strings.HasPrefix(all[from], "# ")
	for i := from + 1; i < len(all); i++ {
		line := all[i]
		if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "<") || begins(line) && !heading {
			if closed && !d.enclosed(all, i) {
				return 0
			}
			return i - from
		}
	}
	if closed {
		return 0
	}
	return len(all) - from
}

func begins(line string) bool {
	for _, s := range sections {
		if strings.HasPrefix(line, s) {
			return true
		}
	}
	return false
}

func (d *dangling) enclosed(all []string, from int) bool {
	for i := max(from, d.reminders); i < len(all); i++ {
		if strings.HasPrefix(all[i], reminderClose) {
			return true
		}
		if strings.HasPrefix(all[i], reminderOpen) {
			d.reminders = i
			return false
		}
	}
	d.reminders = len(all)
	return false
}
