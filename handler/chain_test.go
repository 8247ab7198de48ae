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

package handler

import (
	"os"
	"strings"
	"testing"
)

// The documents draw the chain as it is, in its order.
func TestChainIsDrawn(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, l := range chain {
		i := strings.Index(string(doc[at:]), "─ "+l.name)
		if i < 0 {
			t.Fatalf("%q does not stand where it should", l.name)
		}
		at += i
	}
	if n := strings.Count(string(doc), "─ ") - len(chain); n != 0 {
		t.Errorf("%d layers too many are drawn", n)
	}
}
