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

package wire

import (
	"bytes"
	"errors"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire/rawjson"
)

// ErrNotObject tells that a text that should be a JSON object is none.
var ErrNotObject = errors.New("wire: not a JSON object")

// Member is a member of a JSON object.
type Member struct {
	// Name is the member's name. It must need no escapes.
	Name string
	// Value is its JSON value. Where it is nil there shall be no such member.
	Value []byte
}

// Patch returns a JSON object with some of its members replaced, dropped or, if
// they were not there, added at its end. All other bytes stay as they are, and
// so does object, of which nothing is changed. A name that stands in object
// more than once is patched in all its places. Patch returns object itself if
// nothing changes, and ErrNotObject if it is not an object.
func Patch(object []byte, patches ...Member) ([]byte, error) {
	var (
		found = make([]bool, len(patches))
		cuts  []Cut
		kept  = false // a member in front stays
		open  = -1    // where dropped members at the beginning begin
		last  = 0     // the end of the member in front
	)
	m := rawjson.Walk(object, 0)
	for m.Next() {
		from := m.From
		if open >= 0 {
			cuts = append(cuts, Cut{Start: int32(open), End: int32(from)})
			open = -1
		}
		i := patchOf(patches, m.Key)
		value := m.Skip()
		if m.Bad {
			break
		}
		switch {
		case i < 0:
			kept = true
		case patches[i].Value != nil:
			if !bytes.Equal(value.Of(object), patches[i].Value) {
				cuts = append(cuts, Cut{value.Start, value.End, patches[i].Value})
			}
			kept, found[i] = true, true
		case kept:
			cuts = append(cuts, Cut{Start: int32(last), End: value.End})
		default:
			open = from
		}
		last = int(value.End)
	}
	if m.Bad || rawjson.SkipSpace(object, m.End) != len(object) {
		return nil, ErrNotObject
	}
	if open >= 0 {
		cuts = append(cuts, Cut{Start: int32(open), End: int32(last)})
	}
	var added []byte
	for i, p := range patches {
		if found[i] || p.Value == nil {
			continue
		}
		if kept {
			added = append(added, ',')
		}
		kept = true
		added = append(added, '"')
		added = append(added, p.Name...)
		added = append(added, `":`...)
		added = append(added, p.Value...)
	}
	if added != nil {
		cuts = append(cuts, Cut{int32(m.End) - 1, int32(m.End) - 1, added})
	}
	if len(cuts) == 0 {
		return object, nil
	}
	return join(object, cuts)
}

func patchOf(patches []Member, key []byte) int {
	for i := range patches {
		if patches[i].Name == string(key) {
			return i
		}
	}
	return -1
}
