// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import "github.com/caddy-llm-cache/caddy-llm-cache/wire"

// words are how an API calls a fault: its status, its type and its code.
type words struct {
	status     int
	kind, code string
}

// in returns how the client's API calls the failure. A status of the upstream
// that fits as well stays.
func (f *Failure) in(to wire.Format) words {
	f.complete()
	w := dialects[to].rules.faults[f.fault]
	switch f.fault {
	case faultOverloaded, faultContext, faultBilling, faultRate:
	default:
		if f.Status >= 400 && f.Status <= 599 && f.Status != statusOverloaded {
			w.status = f.Status
		}
	}
	return w
}

// text returns the message as the client's API would word it, where clients go
// by the wording: they compact a conversation that has become too long.
func (f *Failure) text(to wire.Format) string {
	if f.fault != faultContext {
		return f.Message
	}
	return dialects[to].tooLong(f.Message, f.tokens, f.limit)
}

// Write returns the failure as an answer of the client's API.
func (f *Failure) Write(to wire.Format) (status int, body []byte) {
	w := f.in(to)
	return w.status, f.append(nil, to)
}

// append appends the body of the failure, which is on one line.
func (f *Failure) append(b []byte, to wire.Format) []byte {
	return dialects[to].appendFailure(b, f, f.in(to), f.text(to))
}

// appendQuoted appends a text as a JSON string.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	b = appendEscaped(b, s)
	return append(b, '"')
}
