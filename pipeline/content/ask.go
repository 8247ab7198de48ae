// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// maxQuestions is the maximum number of blocks that one call may request.
const maxQuestions = 32

// AskedFor returns the ids in a call, in the forms that models and similar tools use.
func AskedFor(arguments gjson.Result) (names []string) {
	add := func(v gjson.Result) {
		// A model may copy the frame along with the id.
		s := strings.TrimPrefix(strings.TrimSpace(v.Str), StubFrame)
		if s, _, _ = strings.Cut(s, ":"); s != "" && len(names) < maxQuestions {
			names = append(names, s)
		}
	}
	for _, key := range []string{"ids", "id", "block_ids", "block_id"} {
		v := arguments.Get(key)
		if v.IsArray() {
			v.ForEach(func(_, item gjson.Result) bool {
				add(item)
				return true
			})
		} else if v.Type == gjson.String {
			add(v)
		}
	}
	return names
}

// maxPattern is the maximum length of a search pattern, in bytes.
const maxPattern = 1000

// Narrowing returns a function that reduces a text to the requested part, nil for the whole text.
// With a pattern, line numbers precede the lines found.
func Narrowing(arguments gjson.Result) (func(string) string, error) {
	lines, pattern := arguments.Get("lines").Str, arguments.Get("pattern").Str
	if lines == "" && pattern == "" {
		return nil, nil
	}
	first, last := 1, int(^uint(0)>>1)
	if lines != "" {
		from, to, ranged := strings.Cut(lines, "-")
		a, err := strconv.Atoi(strings.TrimSpace(from))
		b := a
		if err == nil && ranged && strings.TrimSpace(to) != "" {
			b, err = strconv.Atoi(strings.TrimSpace(to))
		} else if err == nil && ranged {
			b = last
		}
		if err != nil || a < 1 || b < a {
			return nil, fmt.Errorf("lines: %q is no range of lines like \"10-80\"", Clip(lines, 40))
		}
		first, last = a, b
	}
	var re *regexp.Regexp
	if pattern != "" {
		if len(pattern) > maxPattern {
			return nil, fmt.Errorf("pattern: longer than %d bytes", maxPattern)
		}
		var err error
		if re, err = regexp.Compile(pattern); err != nil {
			re = regexp.MustCompile(regexp.QuoteMeta(pattern))
		}
	}
	return func(text string) string {
		var out strings.Builder
		n := 0
		for line := range strings.Lines(text) {
			n++
			if n < first || n > last || re != nil && !re.MatchString(line) {
				continue
			}
			if re != nil {
				out.WriteString(strconv.Itoa(n))
				out.WriteByte(':')
			}
			out.WriteString(line)
		}
		if out.Len() == 0 {
			return fmt.Sprintf("Nothing there: the text has %d lines.", n)
		}
		return out.String()
	}, nil
}
