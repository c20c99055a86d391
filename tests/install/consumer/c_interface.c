/* A C program that includes only clora.h: the version, the devices and an error. */
#include <clora.h>
#include <stdio.h>

int main(void) {
  int32_t devices = 0;
  if (clora_version() != CLORA_VERSION) {
    printf("the header is of another version than the library, %s\n", clora_version_text());
    return 1;
  }
  if (clora_device_count(&devices) != CLORA_OK || devices < 1) {
    printf("no device: %s\n", clora_last_error());
    return 1;
  }
  if (clora_device_count(NULL) != CLORA_INVALID_ARGUMENT) {
    printf("a null pointer was taken\n");
    return 1;
  }
  printf("clora %s\n", clora_version_text());
  return 0;
}
