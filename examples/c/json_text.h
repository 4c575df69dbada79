/* As much JSON as this example needs: a string in, a string out. A real program would use a JSON library. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <stdio.h>
#include <string.h>

/* Copies the string that follows "name": in a flat JSON object. 0 if there is none, it is too long, or it has an escape
 * other than \" \\ and \/. */
static int json_string_field(const char* json, const char* name, char* into, size_t room) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\"", name);
    const char* at = strstr(json, key);
    if (at == NULL) return 0;
    at += strlen(key);
    at += strspn(at, " \t:");
    if (*at++ != '"') return 0;
    while (*at != '"') {
        if (*at == '\\' && strchr("\"\\/", *++at) == NULL) return 0;
        if (*at == '\0' || room-- <= 1) return 0;
        *into++ = *at++;
    }
    *into = '\0';
    return 1;
}

/* Writes a string in quotes. 0 if there is no room, or a character would need more than a backslash. */
static int json_quoted(const char* text, char* into, size_t room) {
    if (room < 3) return 0;
    char* end = into + room - 2;
    *into++ = '"';
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || into + 2 > end) return 0;
        if (*text == '"' || *text == '\\') *into++ = '\\';
        *into++ = *text;
    }
    *into++ = '"';
    *into = '\0';
    return 1;
}

#endif
