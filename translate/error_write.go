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

// Words are how an API calls a fault: the HTTP status, the type or state, and the code.
type Words struct {
	// Status is the HTTP status.
	Status int
	// Type is the name of the type or state, Code that of the code if the API has any.
	Type, Code string
}

// In returns how the client's API calls the failure. A status of the upstream
// that fits as well stays.
func (f *Failure) In(to wire.Format) Words {
	f.complete()
	w := dialectOf(to).rules.Faults[f.fault]
	switch f.fault {
	case FaultOverloaded, FaultContext, FaultBilling, FaultRate:
	default:
		if f.Status >= 400 && f.Status <= 599 && f.Status != StatusOverloaded {
			w.Status = f.Status
		}
	}
	return w
}

// Text returns the message as the client's API would word it, where clients go
// by the wording: they compact a conversation that has become too long.
func (f *Failure) Text(to wire.Format) string {
	if f.fault != FaultContext {
		return f.Message
	}
	return dialectOf(to).TooLong(f.Message, f.tokens, f.limit)
}

// Write returns the failure as an answer of the client's API.
func (f *Failure) Write(to wire.Format) (status int, body []byte) {
	w := f.In(to)
	return w.Status, f.Append(nil, to)
}

// Append appends the body of the failure, which is on one line.
func (f *Failure) Append(b []byte, to wire.Format) []byte {
	return dialectOf(to).AppendFailure(b, f, f.In(to), f.Text(to))
}
