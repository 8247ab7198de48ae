// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

// Reading of drawings in tests.

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// WellFormedSVG returns the names of a drawing's elements, and its texts.
func WellFormedSVG(t testing.TB, drawing []byte) (elements map[string]int, texts string) {
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
	if elements["title"] != 1 || elements["script"]+elements["image"] != 0 || elements["style"] != 1 ||
		bytes.Contains(drawing, []byte("url(")) || !bytes.Contains(drawing, []byte("viewBox")) {
		t.Errorf("elements %v", elements)
	}
	return elements, texts
}
