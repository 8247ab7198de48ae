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

// Package svgtest reads drawings in tests.
package svgtest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// WellFormed returns the names of the elements of a drawing, and its texts.
func WellFormed(t testing.TB, drawing []byte) (elements map[string]int, texts string) {
	t.Helper()
	elements = map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(drawing))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, drawing)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
			for _, a := range token.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s=%q", a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			texts += string(token)
		}
	}
	if elements["title"] != 1 || elements["script"]+elements["image"] != 0 || elements["style"] != 1 || bytes.Contains(drawing, []byte("url(")) || !bytes.Contains(drawing, []byte("viewBox")) {
		t.Errorf("elements %v", elements)
	}
	return elements, texts
}
