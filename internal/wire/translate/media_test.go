// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestMediaLabels: an image goes to the Messages API with the media type of its bytes, in standard
// base64, for any label and encoding of a chat client.
func TestMediaLabels(t *testing.T) {
	jpeg := append([]byte{0xff, 0xd8, 0xff, 0xe0, 0xfb, 0xef, 0xbe}, "JFIF and more"...)
	png := append([]byte("\x89PNG\r\n\x1a\n"), 0xfb, 0xff, 0xfe, 1)
	webp := []byte("RIFF\x10\x00\x00\x00WEBPVP8 ")
	standard := base64.StdEncoding.EncodeToString
	for _, c := range []struct {
		name, url, kind string
		bytes           []byte
	}{
		{"as it should be", "data:image/jpeg;base64," + standard(jpeg), "image/jpeg", jpeg},
		{"another name", "data:image/jpg;base64," + standard(jpeg), "image/jpeg", jpeg},
		{"capitals", "data:IMAGE/PNG;base64," + standard(png), "image/png", png},
		{"parameters", "data:image/png;charset=utf-8;base64," + standard(png), "image/png", png},
		{"of another kind", "data:image/png;base64," + standard(jpeg), "image/jpeg", jpeg},
		{"of no kind", "data:application/octet-stream;base64," + standard(webp), "image/webp", webp},
		{"the alphabet of URLs", "data:image/jpeg;base64," + base64.RawURLEncoding.EncodeToString(jpeg), "image/jpeg", jpeg},
		{"no padding", "data:image/png;base64," + base64.RawStdEncoding.EncodeToString(png), "image/png", png},
		{"lines", "data:image/png;base64," + standard(png)[:8] + `\n` + standard(png)[8:] + `\r\n`, "image/png", png},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url",`+
				`"image_url":{"url":"%s"}}]}]}`, c.url)
			out, err := translate.Convert(wire.OpenAIChat, wire.Anthropic,
				translate.Incoming{Body: []byte(body), Path: "/v1/chat/completions"}, translate.Options{})
			if err != nil {
				t.Fatal(err)
			}
			source := gjson.GetBytes(out.Body, "messages.0.content.0.source")
			if got := source.Get("media_type").Str; got != c.kind {
				t.Errorf("label: got %s, want %s", got, c.kind)
			}
			if got := source.Get("data").Str; got != standard(c.bytes) {
				t.Errorf("data: got %s, want %s", got, standard(c.bytes))
			}
		})
	}
}

// TestMediaNotes: an unsupported medium becomes a text and is listed. An error would come back with
// each later request.
func TestMediaNotes(t *testing.T) {
	for _, c := range []struct {
		to   wire.Format
		part string
		kind string
	}{
		{wire.Anthropic, `{"type":"image_url","image_url":{"url":"data:image/heic;base64,AAAA"}}`, "image/heic"},
		{wire.Anthropic, `{"type":"input_audio","input_audio":{"format":"mp3","data":"AAAA"}}`, "audio/mp3"},
		{wire.OpenAIResponses, `{"type":"input_audio","input_audio":{"format":"wav","data":"AAAA"}}`, "audio/wav"},
	} {
		body := `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Listen."},` + c.part + `]}]}`
		out, err := translate.Convert(wire.OpenAIChat, c.to,
			translate.Incoming{Body: []byte(body), Path: "/v1/chat/completions"}, translate.Options{})
		if err != nil {
			t.Errorf("%s to %s: %v, want a note", c.kind, c.to, err)
			continue
		}
		if !strings.Contains(string(out.Body), "A file ("+c.kind+") of 1 KB was attached here") || len(out.Dropped) != 1 {
			t.Errorf("%s to %s: dropped %v in %s", c.kind, c.to, out.Dropped, out.Body)
		}
	}
}

// TestImagesInAnswers: an image from the model reaches every client, in the API's place for images
// or as a text about it.
func TestImagesInAnswers(t *testing.T) {
	const data = "iVBORw0KGgo="
	chat := func(member string) string {
		return `{"id":"c1","model":"m","choices":[{"index":0,"` + member +
			`":{"role":"assistant","content":"","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
			data + `"}}]},"finish_reason":"stop"}]}`
	}
	gemini := `{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"` + data +
		`"}}]},"finishReason":"STOP"}]}`
	interaction := `{"id":"i1","model":"m","status":"completed","steps":[{"type":"model_output",` +
		`"content":[{"type":"image","mime_type":"image/png","data":"` + data + `"}]}]}`
	item := `{"id":"ig_1","type":"image_generation_call","status":"completed","output_format":"png","result":"` +
		data + `"}`
	answers := map[wire.Format][2]string{ // JSON, and a stream
		wire.OpenAIChat: {chat("message"), "data: " + chat("delta") + "\n\ndata: [DONE]\n\n"},
		wire.Gemini:     {gemini, "data: " + gemini + "\n\n"},
		wire.Interactions: {interaction, `data: {"event_type":"interaction.completed","interaction":` + interaction +
			"}\n\n"},
		wire.OpenAIResponses: {
			`{"id":"r1","model":"m","status":"completed","output":[` + item + `]}`,
			`data: {"type":"response.output_item.done","output_index":0,"item":` + item + "}\n\n" +
				`data: {"type":"response.completed","response":{"id":"r1","status":"completed","output":[` + item + "]}}\n\n",
		},
	}
	places := map[wire.Format][2]string{
		wire.OpenAIChat: {
			"choices.0.message.images.0.image_url.url",
			`"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}}]`,
		},
		wire.Gemini: {"candidates.0.content.parts.0.inlineData.data", `{"inlineData":{"mimeType":"image/png","data":"` +
			data + `"}}`},
		wire.Interactions: {"steps.0.content.0.data", `"delta":{"mime_type":"image/png","data":"` + data +
			`","type":"image"}`},
	}
	for from, answer := range answers {
		for _, to := range translate.Formats() {
			whole, _ := run(from, to, translate.Answering{Seed: "s"}, []byte(answer[0]))
			stream, _ := run(from, to, translate.Answering{Stream: true, Seed: "s"}, []byte(answer[1]))
			place, ok := places[to]
			switch {
			case ok && (!strings.HasSuffix(gjson.GetBytes(whole, place[0]).Str, data) || strings.Count(string(stream),
				place[1]) != 1):
				t.Errorf("%s to %s: got %s and %s, want the image at %s", from, to, whole, stream, place[0])
			case !ok && (!strings.Contains(string(whole), "image/png") || strings.Count(string(stream),
				"has made an image") == 0):
				t.Errorf("%s to %s: got %s and %s, want a text that says that there was an image", from, to, whole, stream)
			}
		}
	}
}
