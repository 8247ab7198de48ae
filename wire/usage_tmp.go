package wire

import "github.com/tidwall/gjson"

func (a *answer) responsesUsage(u gjson.Result) {
	prompt, output := answerCount(u.Get("input_tokens")), answerCount(u.Get("output_tokens"))
	if prompt+output == 0 {
		return
	}
	read := min(answerCount(u.Get("input_tokens_details.cached_tokens")), prompt)
	write := min(answerCount(u.Get("input_tokens_details.cache_write_tokens")), prompt-read)
	a.turn.Usage = Usage{Uncached: prompt - read - write, Write5m: write, Read: read, Output: output, Reported: true}
}

func (a *answer) geminiUsage(u gjson.Result) {
	prompt := answerCount(u.Get("promptTokenCount"))
	read := min(answerCount(u.Get("cachedContentTokenCount")), prompt)
	output := answerCount(u.Get("candidatesTokenCount")) + answerCount(u.Get("thoughtsTokenCount"))
	if prompt+output == 0 {
		return
	}
	a.turn.Usage = Usage{Uncached: prompt - read, Read: read, Output: output, Reported: true}
}
