// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import "strings"

// claude is the family and version of a Claude model. They decide which members a request may have.
// The zero value is any other model.
type claude struct {
	family  string
	version int // 10 × major + minor
}

func claudeOf(model string) (c claude) {
	_, words, ok := strings.Cut(model, "claude-")
	if !ok {
		return c
	}
	numbers := 0
	for _, word := range strings.FieldsFunc(words,
		func(r rune) bool { return r == '-' || r == '.' || r == '@' || r == ':' }) {
		switch word {
		case "opus", "sonnet", "haiku", "fable", "mythos", "instant":
			c.family = word
			continue
		}
		if len(word) > 1 || word[0] < '0' || word[0] > '9' || numbers == 2 {
			if numbers > 0 && c.family != "" {
				break
			}
			continue
		}
		if numbers++; numbers == 1 {
			c.version = 10 * int(word[0]-'0')
		} else {
			c.version += int(word[0] - '0')
		}
	}
	if c.family == "" {
		return claude{}
	}
	return c
}

func (c claude) named() bool { return c.family == "fable" || c.family == "mythos" }

// fixedSampling reports whether the model refuses all sampling parameters except its defaults.
func (c claude) fixedSampling() bool { return c.version >= 47 }

// adaptive reports whether the model takes adaptive thinking and an effort: 4.6 and later.
func (c claude) adaptive() bool {
	return c.named() || (c.family == "haiku" && c.version >= 50) || (c.family != "haiku" && c.version >= 46)
}

// alwaysThinks reports whether the model refuses a request that disables thinking.
func (c claude) alwaysThinks() bool {
	return c.named() || c.version >= 55 && c.family != "haiku"
}

// refusesForced reports whether the model refuses a tool_choice that forces a call.
func (c claude) refusesForced() bool {
	return c.family == "mythos" || c.family == "fable" && c.version >= 51 || c.version >= 55 && c.family != "haiku"
}

func (c claude) refusesPrefill() bool { return c.version >= 46 }

// systemMessages reports whether the model takes system messages in the middle of a conversation.
func (c claude) systemMessages() bool {
	return c.named() || c.family == "opus" && c.version >= 48 || c.family == "sonnet" && c.version >= 55
}
