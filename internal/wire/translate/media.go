// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Media is an image, a document or a sound: base64 data or a URL.
type Media struct {
	// Type is the media type, such as image/png. It may be empty with a URL.
	Type string
	// Data is the content in base64.
	Data rawjson.Text
	// URL is the address of the content, if Data is empty.
	URL rawjson.Text
	// Name is the name of a document.
	Name rawjson.Text
	// Detail is OpenAI's detail of an image.
	Detail rawjson.Value
	// Field is the client's path of the medium, for errors.
	Field string
}

// otherNames maps non-standard names of media types.
var otherNames = map[string]string{
	"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/jfif": "image/jpeg", "image/x-png": "image/png",
	"application/x-pdf": "application/pdf",
}

// beginnings are the magic bytes of some media types.
var beginnings = []struct {
	bytes, name string
}{
	{"\xff\xd8\xff", "image/jpeg"},
	{"\x89PNG\r\n\x1a\n", "image/png"},
	{"GIF8", "image/gif"},
	{"%PDF-", "application/pdf"},
}

// normalize corrects the media type from the content and rewrites the data as standard base64.
func (m *Media) normalize() {
	kind, _, _ := strings.Cut(strings.ToLower(m.Type), ";")
	kind = strings.TrimSpace(kind)
	m.Type = cmp.Or(otherNames[kind], kind)
	if m.Data.Empty() {
		return
	}
	// OpenAI's API tolerates a wrong type and other base64. Other APIs reject the request and, with
	// the history, each later one.
	m.Data = standardBase64(m.Data)
	if m.Type != "" && !strings.HasPrefix(m.Type, "image/") && m.Type != "application/pdf" &&
		m.Type != "application/octet-stream" {
		return
	}
	head, _ := base64.StdEncoding.DecodeString(string(m.Data[:min(len(m.Data), 16)/4*4]))
	for _, b := range beginnings {
		if bytes.HasPrefix(head, []byte(b.bytes)) {
			m.Type = b.name
		}
	}
	if len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP" {
		m.Type = "image/webp"
	}
}

// normalize normalizes the media among parts and in results.
func normalize(parts []Part) {
	for i := range parts {
		if m := parts[i].Media; m != nil {
			m.normalize()
		}
		normalize(parts[i].Content)
	}
}

// standardBase64 converts any base64 to the form of RFC 4648, section 4.
func standardBase64(data rawjson.Text) rawjson.Text {
	if len(data)%4 == 0 && !bytes.ContainsAny(data, "-_\\ ") {
		return data
	}
	// Clients use either alphabet, with or without padding and white space.
	text := strings.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		case ' ', '\t', '\r', '\n', '=':
			return -1
		}
		return r
	}, data.Decoded())
	return rawjson.Escaped(text + strings.Repeat("=", (4-len(text)%4)%4))
}

// imageNote returns a text in place of an image, for APIs without images in answers.
func imageNote(media, data string) string {
	if media == "" {
		return "[The model has made an image: " + data + "]"
	}
	made := "an image"
	if !strings.HasPrefix(media, "image/") {
		made = "a file"
	}
	return fmt.Sprintf("[The model has made %s (%s, %d KB), which this API cannot show.]", made, media,
		(len(data)/4*3+1023)/1024)
}

// Note returns a text in place of an unsupported medium and lists the medium as dropped.
func (w *Writer) Note(p Part) rawjson.Text {
	// An error would repeat with each later request, because the medium stays in the history.
	w.Drop(p.Media.Field)
	of := " at " + p.Media.URL.Decoded()
	if n := len(p.Media.Data) / 4 * 3; n > 0 {
		of = fmt.Sprintf(" of %d KB", (n+1023)/1024)
	}
	return rawjson.Escaped(fmt.Sprintf("[A file (%s)%s was attached here, which this model's API cannot take.]",
		cmp.Or(p.Media.Type, "of unknown type"), of))
}
