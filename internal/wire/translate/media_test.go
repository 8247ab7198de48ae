// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

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
