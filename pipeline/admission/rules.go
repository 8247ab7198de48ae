// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// rule is one shortening of a text. It is a pure function of the text and its origin, and never makes
// a text longer.
type rule struct {
	// option is the rule's switch.
	option func(o *Options) **bool
	// of are the sources that the rule applies to.
	of source
	// errors reports whether the rule also applies to results that the tool reports as errors.
	errors bool
	apply  func(s string, from *origin) string
}

// rules are applied once, in this order.
var rules = [...]rule{
	{func(o *Options) **bool { return &o.PassingTests }, sourceCommand, true, alone(countPassing)},
	{func(o *Options) **bool { return &o.Progress }, sourceCommand, true, alone(countProgress)},
	{
		func(o *Options) **bool { return &o.Echoes }, sourceWrite, false,
		func(s string, from *origin) string { return dropEcho(s, from.written) },
	},
	{
		func(o *Options) **bool { return &o.LineNumbers }, sourceRead | sourceWrite, false,
		func(s string, from *origin) string {
			if !from.numbered {
				return s
			}
			return dropPadding(s)
		},
	},
	{func(o *Options) **bool { return &o.SearchHits }, sourceSearch, false, alone(groupHits)},
}

func alone(apply func(string) string) func(string, *origin) string {
	return func(s string, _ *origin) string { return apply(s) }
}

// minAdmission is the minimum length in bytes of a text to shorten.
const minAdmission = 400

// admitted returns the sent form of a text.
func (o *Options) admitted(s string, from *origin) string {
	if len(s) < minAdmission {
		return s
	}
	if start, end, ok := content.Wrapped(s); ok {
		text := gjson.Parse(s[start:end]).Str
		if t := o.admitted(text, from); len(t) < len(text) {
			return s[:start] + string(content.Append(nil, t)) + s[end:]
		}
		return s
	}
	for i := range rules {
		r := &rules[i]
		if r.of&from.source == 0 || from.failed && !r.errors || !enabled(*r.option(o)) {
			continue
		}
		if t := r.apply(s, from); len(t) < len(s) {
			s = t
		}
	}
	return s
}
