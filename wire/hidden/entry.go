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

package hidden

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// Entry is one entry of an answer's list on its way to the client: a block, an item or a
// step. The client counts those that it gets.
type Entry struct {
	// Index is the upstream's, Client the client's, -1 as long as the client has not got it.
	Index  int64
	Client int
	// Hidden reports whether it is answered on the way.
	Hidden bool

	held bool     // to be judged
	kept [][]byte // data of the events kept back
}

// Open begins an entry, which the client gets unless it is hidden, or held to be judged.
func (m *Message) Open(index int64, hides, holds bool) Entry {
	m.Begun++
	e := Entry{Index: index, Client: -1, Hidden: hides, held: holds}
	if !hides && !holds {
		m.number(&e)
	}
	return e
}

func (m *Message) number(e *Entry) {
	e.Client = m.Visible
	m.Visible++
}

// Shows reports whether the client gets an event of an entry now. Those of one that is
// held are kept.
func (m *Message) Shows(e *Entry, f Event) bool {
	if e.held {
		m.Keep(len(f.Data))
		e.kept = append(e.kept, bytes.Clone(f.Data))
	}
	return !e.Hidden && !e.held
}

// Judge decides about an entry that was held, given what it came to.
func (m *Message) Judge(e *Entry, p *Part, tell func(Event)) {
	if e.held {
		if e.Hidden = m.Options.Judge(p.Name, p.Arguments); e.Hidden {
			e.held, e.kept = false, nil
		}
		m.Release(e, tell)
	}
	p.Hidden = e.Hidden
}

// Release shows the client an entry that is held.
func (m *Message) Release(e *Entry, tell func(Event)) {
	if !e.held {
		return
	}
	kept := e.kept
	e.held, e.kept = false, nil
	m.number(e)
	for _, data := range kept {
		tell(Event{Root: gjson.ParseBytes(data)})
	}
}
